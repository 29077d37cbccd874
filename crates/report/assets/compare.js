// Charts of a comparison: B against A in each pair, or the runs of both sides where they are not paired.

function ratioPlot(id) {
  const item = data.comparisons.find((c) => c.id === id);
  return item.pairs.length ? pairPlot(item) : runsPlot(item);
}

const signed = (percent) => `${percent < 0 ? '\u2212' : '+'}${Math.abs(percent).toFixed(Math.abs(percent) < 0.995 ? 2 : 1)} %`;

// The axis reaches every point, the interval and the margin.
function ratioAxis(item) {
  const all = [...item.percent, ...item.of_a, ...item.margin, ...(item.interval ?? []), 0];
  const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
  const room = (high - low) * 0.06;
  return valueAxis({ min: low - room, max: high + room, axisLabel: { ...label(), showMinLabel: false, showMaxLabel: false, formatter: (x) => `${x > 0 ? '+' : ''}${plain(Number(x.toFixed(6)))} %` } });
}

// The margin over the whole width, the interval from `from` on, a line at no difference and one at the estimate.
function zones(item, from) {
  return {
    type: 'custom', silent: true, z: 1, data: [[0, 0]],
    renderItem: (params, api) => {
      const { x, width } = params.coordSys;
      const start = x + width * from;
      const at = (percent) => api.coord([0, percent])[1];
      const band = ([low, high], left, fill, opacity) => ({
        type: 'rect', shape: { x: left, y: at(high), width: x + width - left, height: Math.max(at(low) - at(high), 1.5) }, style: { fill, opacity },
      });
      const line = (percent, left, stroke, lineWidth) => ({
        type: 'line', shape: { x1: left, y1: at(percent), x2: x + width, y2: at(percent) }, style: { stroke, lineWidth },
      });
      const children = [band(item.margin, x, colours.line, 0.7), line(0, x, colours.muted, 1)];
      if (item.interval) {
        const [low, point, high] = item.interval;
        children.push(band([low, high], start, colours.c1, 0.22), line(point, start, colours.c1, 2));
      }
      return { type: 'group', children };
    },
  };
}

function ratioDots(points, colour, small) {
  return {
    type: 'scatter', z: 3, symbolSize: small ? 5 : 9, data: points.map((p) => p.at),
    itemStyle: { color: colour, opacity: small ? 0.65 : 0.9, borderColor: colours.page, borderWidth: small ? 0 : 1 },
    tooltip: { formatter: (p) => lines(points[p.dataIndex].name, points[p.dataIndex].rows) },
  };
}

const told = (item) => (item.interval ? `Estimate ${signed(item.interval[1])}, interval ${signed(item.interval[0])} to ${signed(item.interval[2])}.` : 'No verdict.');

function pairPlot(item) {
  const points = item.percent.map((percent, i) => ({
    at: [i, percent], name: `Pair ${item.pairs[i]}`,
    rows: [signed(percent), `${item.names[0]} ${significant(item.a[i])} ${item.unit}`, `${item.names[1]} ${significant(item.b[i])} ${item.unit}`],
  }));
  return {
    ...frame(`${item.names[1]} against ${item.names[0]} by ${item.title} in ${points.length} pairs. ${told(item)}`),
    grid: { left: 62, right: 12, top: 14, bottom: 48 },
    xAxis: { ...levelAxis(), data: item.pairs.map(String), name: 'pair' }, yAxis: ratioAxis(item),
    series: [zones(item, 0), ratioDots(points, colours.c0, points.length > 60)],
  };
}

function runsPlot(item) {
  // Side by side in the order of execution, within the place of their side.
  const spread = (values, side) => values.map((percent, i) => ({
    at: [side + (values.length > 1 ? (i / (values.length - 1) - 0.5) * 0.5 : 0), percent],
    name: `${item.noun} ${i + 1} ${item.owners[side]}`,
    rows: [`${significant((side ? item.b : item.a)[i])} ${item.unit}`, `${signed(percent)} against the median ${item.owners[0]}`],
  }));
  return {
    ...frame(`${item.noun}s ${item.owners[0]} and ${item.owners[1]} by ${item.title}, against the median ${item.owners[0]}. ${told(item)}`),
    grid: { left: 62, right: 12, top: 14, bottom: 30 },
    xAxis: {
      type: 'value', min: -0.5, max: 1.5, splitLine: { show: false }, axisTick: { show: false }, axisLine: { lineStyle: { color: colours.line } },
      axisLabel: { ...label(), fontSize: 13, customValues: [0, 1], formatter: (x) => item.names[x] ?? '' },
    },
    yAxis: ratioAxis(item),
    series: [zones(item, 0.5), ratioDots(spread(item.of_a, 0), colours.c0, false), ratioDots(spread(item.percent, 1), colours.c1, false)],
  };
}
