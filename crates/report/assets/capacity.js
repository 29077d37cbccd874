// ---- the probes of a search: latency over the rate that was offered

function probesOfRun(run) {
  const search = data.capacity.find((one) => one.run === run);
  const probes = search.probes;
  const values = probes.flatMap((probe) => [probe.ms, ...(probe.range ?? [])]).concat(search.limit_ms);
  const colour = { holds: colours.c2, misses: colours.void, undecided: colours.muted };
  const points = (verdict) => ({
    type: 'scatter', name: verdict, symbolSize: 9, z: 3,
    itemStyle: { color: colour[verdict] },
    data: probes.filter((probe) => probe.verdict === verdict).map((probe) => ({
      value: [probe.rate, probe.ms], probe,
      itemStyle: probe.confirms ? { color: colours.page, borderColor: colour[verdict], borderWidth: 3 } : undefined,
      symbolSize: probe.confirms ? 13 : 9,
    })),
  });
  const marks = {
    type: 'line', data: [], silent: true,
    markLine: {
      silent: true, symbol: 'none', label: { show: false }, lineStyle: { color: colours.text, type: 'dashed', width: 1 },
      data: [{ yAxis: search.limit_ms }, ...(search.found ? [{ xAxis: search.found[1] }] : [])],
    },
    markArea: search.found ? {
      silent: true, itemStyle: { color: colours.shade },
      data: [[{ xAxis: search.found[0] }, { xAxis: search.found[2] }]],
    } : undefined,
  };
  const rates = probes.map((probe) => probe.rate).concat(search.found ?? []);
  const option = frame(`${search.percentile} of each probe of run ${run} over the rate that was offered`);
  option.grid = { left: 64, right: 24, top: 16, bottom: 52 };
  option.xAxis = valueAxis({
    name: 'transactions per second offered', nameLocation: 'middle', nameGap: 30, nameTextStyle: { ...label(), fontSize: 13 },
    min: 0, max: Math.max(...rates) * 1.05, axisLabel: { ...label(), showMaxLabel: false, formatter: (x) => plain(Math.round(x)) },
  });
  option.yAxis = logAxis(values);
  option.tooltip.formatter = ({ data: point }) => {
    if (!point?.probe) return '';
    const { rate, ms, range, verdict, confirms } = point.probe;
    const rows = [`${search.percentile} ${significant(ms)} ms`, verdict + (confirms ? ' (confirms)' : '')];
    if (range) rows.splice(1, 0, `${significant(range[0])} to ${significant(range[1])} ms`);
    return lines(`${significant(rate)}/s`, rows);
  };
  option.series = [...['holds', 'undecided', 'misses'].map(points), marks];
  return option;
}
