// The heat map of a run: a row for each processor.

// A row of cells for each line, the first at the top: the stronger the colour, the more, up to 100 %.
const HEAT = 9;
const heatColour = (value) => colours[`h${Math.min(Math.floor(value / 100 * HEAT), HEAT - 1)}`];

// Two pixels for each row at least: a row of none would hide a busy processor. Few rows have the height of other charts.
const heatHeight = (n) => (n > 50 ? `${2 * n + 30}px` : '');

function heatKeys() {
  return [{ name: 'idlest', colour: colours.h0, area: true }, { name: 'busiest', colour: colours[`h${HEAT - 1}`], area: true }];
}

function heatOption(run, panel) {
  const end = run.window[2], n = panel.lines.length;
  const rows = panel.lines.map(({ points }) => points.map(([t, value], i) => {
    const before = i > 0 ? (points[i - 1][0] + t) / 2 : Math.max(0, i + 1 < points.length ? t - (points[i + 1][0] - t) / 2 : t - 0.5);
    const after = i + 1 < points.length ? (points[i + 1][0] + t) / 2 : Math.min(end, i > 0 ? t + (t - points[i - 1][0]) / 2 : t + 0.5);
    return [before, after, value];
  }));
  const cells = rows.flatMap((row, y) => row.filter(([, after, value]) => value !== null && after > 0).map(([from, to, value]) => [from, y, to, value]));
  const means = rows.map((row) => row.map(([, , value]) => value).filter((v) => v !== null)).map((known) => known.reduce((a, b) => a + b, 0) / Math.max(known.length, 1));
  const words = n <= 16 ? panel.lines.map((line, i) => `${line.name} ${significant(means[i])}`).join(', ') : `means from ${significant(lowest(means, Infinity))} to ${significant(highest(means))}`;
  const option = timeOption(run, { ...panel, lines: [{ name: panel.title, points: [[0, 0]] }] }, [colours.muted], 1);
  return {
    ...option,
    ...frame(`${panel.title} of ${run.shaded ? 'all runs' : `run ${run.run}`} over ${Math.round(end)} seconds as a heat map, ${n} rows, ${panel.unit}: ${words}.`),
    grid: option.grid,
    yAxis: {
      type: 'value', min: 0, max: n, inverse: true, interval: Math.ceil(n / 4), splitLine: { show: false }, axisLine: { show: false }, axisTick: { show: false },
      axisLabel: { ...label(), showMaxLabel: false, formatter: (row) => panel.lines[row]?.name ?? '', verticalAlign: 'top' },
    },
    series: [{
      type: 'custom', silent: true, clip: true, encode: { x: [0, 2], y: 1 }, data: cells,
      renderItem: (params, api) => {
        const whole = (point) => point.map(Math.round);
        const [x, y] = whole(api.coord([api.value(0), api.value(1)])), [right, bottom] = whole(api.coord([api.value(2), api.value(1) + 1]));
        return { type: 'rect', shape: { x, y, width: right - x, height: bottom - y }, style: { fill: heatColour(api.value(3)) } };
      },
    }],
  };
}
