// The history of a case: a dot for each run, a line at the median of each level, and where the level changed.

function historyOf(item) {
  const dots = item.tps.map((tps, i) => [i, tps]);
  const all = item.tps.concat(item.levels.map(([, , median]) => median));
  const low = lowest(all, Infinity), high = highest(all);
  const room = (high - low || high || 1) * 0.15;
  // A day says nothing where all runs are of few days.
  const days = new Set(item.when.map((when) => when.slice(0, 10))).size;
  const when = (i) => (days > 3 ? item.when[i].slice(0, 10) : item.when[i].slice(days > 1 ? 5 : 11, 16));
  const level = ([from, to, median]) => [[from - 0.4, median], [to + 0.4, median], [null, null]];
  const change = ([at, words]) => ({
    xAxis: at - 0.5, lineStyle: { color: colours.c1, width: 1.2, type: 'dashed' },
    label: { ...label(), color: colours.text, formatter: words, position: 'insideEndTop', rotate: 0, backgroundColor: colours.page, padding: [1, 3] },
  });
  return {
    ...frame(`Throughput of ${item.tps.length} runs over time, ${significant(low)} to ${significant(high)} tps. ${item.changes.length ? `Level changes: ${item.changes.map(([at, words]) => `${words} at ${item.when[at]}`).join('; ')}.` : 'No level change.'}`),
    grid: { left: 62, right: 20, top: 26, bottom: 30 },
    xAxis: {
      type: 'value', min: -0.8, max: Math.max(item.tps.length, 2) - 0.2, splitLine: { show: false }, axisTick: { show: false }, minInterval: 1,
      axisLine: { lineStyle: { color: colours.line } },
      axisLabel: { ...label(), hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (i) => (Number.isInteger(i) && item.when[i] ? when(i) : '') },
    },
    yAxis: valueAxis({ min: Math.max(low - room, 0), max: high + room, splitNumber: 4, axisLabel: { ...label(), showMinLabel: false, showMaxLabel: false, formatter: plain } }),
    series: [
      {
        type: 'line', data: item.levels.flatMap(level), color: colours.c0, symbol: 'none', silent: true, z: 2, lineStyle: { width: 2, opacity: 0.55 },
        markLine: { silent: true, symbol: 'none', z: 1, data: item.changes.map(change) },
      },
      {
        type: 'scatter', data: dots, z: 3, symbolSize: dots.length > 200 ? 5 : 8, itemStyle: { color: colours.c0, opacity: 0.85, borderColor: colours.page, borderWidth: 1 },
        tooltip: { formatter: ({ dataIndex: i }) => lines(item.when[i], [`${significant(item.tps[i])} tps`, item.revision[i]].filter(Boolean)) },
      },
    ],
  };
}
