// Charts of factors: one small chart for each level, boxes of pooled runs.

// A bar from zero to the median, with a whisker from the lowest to the highest run.
function bar(api, item, place, width, shift, colour) {
  const [x, top] = api.coord([place, item.median]);
  const bottom = api.coord([place, 0])[1];
  const at = (value) => api.coord([place, value])[1];
  const middle = x + shift;
  const children = [{
    type: 'rect', shape: { x: middle - width / 2, y: top, width, height: Math.max(bottom - top, 1) },
    style: { fill: colour, opacity: 0.85 },
  }];
  if (item.range && item.range[1] > item.range[0]) {
    const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colours.text, lineWidth: 1 } });
    const cap = Math.min(width / 4, 4);
    children.push(line(middle, at(item.range[0]), middle, at(item.range[1])));
    for (const end of item.range) children.push(line(middle - cap, at(end), middle + cap, at(end)));
  }
  return { type: 'group', children };
}

const measured = (cases) => cases.filter((c) => c.median !== null);

// The value axis must reach the whiskers, which no series tells it of.
const reach = (cases) => niceAbove(highest(cases.map((c) => (c.range ? c.range[1] : c.median))));

function niceAbove(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= x);
}

// What is left of names when the words that all of them share at their start are taken away.
function withoutShared(names) {
  const words = names.map((name) => name.split(' '));
  let shared = 0;
  while (words.length > 1 && words.every((w) => w.length > shared + 1 && w[shared] === words[0][shared])) shared += 1;
  return words.map((w) => w.slice(shared).join(' '));
}

// Up to this many bars of a panel have their names below them; the colours of more are explained above the bars of all.
const NAMED_BARS = 6;

function panelAxis(element) {
  const labels = withoutShared(data.axis.groups.map((group) => group.name));
  if (labels.length > NAMED_BARS) return { option: { ...levelAxis(), data: labels, name: '' }, bottom: 30 };
  return placesAxis(element, labels, '', false);
}

// All panels have one scale, so that they can be compared.
function barsOfLevel(level, element) {
  const all = measured(data.cases);
  const cases = all.filter((c) => c.level === level);
  const words = cases.map((c) => `${c.label}: ${significant(c.median)} tps`);
  const { option: xAxis, bottom } = panelAxis(element);
  return {
    ...frame(`Median throughput of ${data.axis.title} ${data.axis.levels[level]}. ${words.join('; ')}.`),
    grid: { left: 62, right: 8, top: 14, bottom },
    xAxis,
    yAxis: valueAxis({ min: 0, max: reach(all) }),
    series: [{
      type: 'custom', data: cases.map((c) => [c.group, c.median]), encode: { x: 0, y: 1 },
      tooltip: { formatter: (p) => caseTip(cases[p.dataIndex]) },
      renderItem: (params, api) => {
        const item = cases[params.dataIndex];
        return bar(api, item, item.group, Math.min(api.size([1, 0])[0] * 0.6, 48), 0, groupColour(item.group));
      },
    }],
  };
}

function poolBoxes(pool, element) {
  const axis = placesAxis(element, pool.levels, pool.title, pool.levels.every((level) => level.length < 5));
  const words = pool.levels.map((level, i) => `${level}: median ${significant(pool.boxes[i][2])} tps of ${pool.n[i]} runs`);
  return {
    ...frame(`Throughput of all runs${pool.title ? ` by ${pool.title}` : ''}. ${words.join('; ')}.`),
    grid: { left: 62, right: 8, top: 14, bottom: axis.bottom },
    xAxis: axis.option,
    yAxis: valueAxis({ min: 0, max: niceAbove(highest(pool.boxes.map((b) => b[4]))) }),
    series: [{
      type: 'custom', data: pool.boxes.map((b, i) => [i, b[2]]), encode: { x: 0, y: 1 },
      tooltip: {
        formatter: (p) => lines(`${pool.title} ${pool.levels[p.dataIndex]}`, [
          `${pool.n[p.dataIndex]} runs`,
          ...['lowest', 'first quartile', 'median', 'third quartile', 'highest'].map(
            (name, i) => `${name} ${significant(pool.boxes[p.dataIndex][i])} tps`),
        ]),
      },
      renderItem: (params, api) => poolBox(api, params.dataIndex, pool.boxes[params.dataIndex]),
    }],
  };
}

function poolBox(api, place, [lowest, low, median, high, top]) {
  const x = api.coord([place, 0])[0];
  const at = (value) => api.coord([place, value])[1];
  const half = Math.min(api.size([1, 0])[0] * 0.28, 22);
  const line = (x1, y1, x2, y2, lineWidth) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colours.c0, lineWidth } });
  return {
    type: 'group',
    children: [
      line(x, at(lowest), x, at(top), 1.5),
      {
        type: 'rect', shape: { x: x - half, y: at(high), width: 2 * half, height: Math.max(at(low) - at(high), 1) },
        style: { fill: colours.page, stroke: colours.c0, lineWidth: 1.5 },
      },
      line(x - half, at(median), x + half, at(median), 2.5),
    ],
  };
}
