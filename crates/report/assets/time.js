// Charts of one run over time, one below the other, with a common pointer and zoom.

function choose(number) {
  const holder = document.getElementById('run');
  const run = data.runs.find((r) => r.run === number);
  if (!holder || !run) return;
  shown = number;
  drawn = drawn.filter((chart) => {
    const inside = holder.contains(chart.getDom());
    if (inside) chart.dispose();
    return !inside;
  });
  for (const button of document.querySelectorAll('.strip button')) {
    button.setAttribute('aria-pressed', String(Number(button.dataset.run) === number));
  }
  holder.replaceChildren(...heading(run));
  const charts = run.panels.map((panel, index) => timeChart(holder, run, panel, index));
  together(charts);
  document.body.dataset.rendered = drawn.length;
}

function heading(run) {
  const title = document.createElement('h3');
  title.textContent = run.title;
  const about = document.createElement('p');
  about.className = 'quiet';
  about.textContent = (run.shaded ? 'One time axis for all, from the first load on. Grey: not measured.' : 'One time axis for all. Grey: load that does not count.') + ' Ctrl and wheel zooms, a double click shows all again.';
  const parts = [title, about];
  if (!run.is_whole) {
    const brief = document.createElement('p');
    brief.className = 'quiet';
    brief.textContent = 'Only the throughput of this run is on the page, to keep it small: `pgdyno export DIR --run ' + run.run + '` prints all that was recorded.';
    parts.push(brief);
  }
  return run.marks.length ? [...parts, markList(run)] : parts;
}

function markList(run) {
  const details = document.createElement('details');
  details.className = 'marks';
  const summary = document.createElement('summary');
  summary.textContent = run.marks.length === 1 ? '1 mark' : `${run.marks.length} marks`;
  const list = document.createElement('ul');
  for (const mark of run.marks) {
    const entry = document.createElement('li');
    const time = document.createElement('b');
    time.textContent = mark.to_s > mark.from_s ? `${clock(mark.from_s)} to ${clock(mark.to_s)}` : clock(mark.from_s);
    entry.append(time, ` ${mark.text}`);
    list.append(entry);
  }
  details.append(summary, list);
  return details;
}

function lineColours(run, panel) {
  const named = {
    server: 'c0', driver: 'c2', foreign: 'c1', pgdyno: 'c3', steal: 'c6', iowait: 'c7',
    // As the limiters that they speak for.
    CPU: 'c2', WAL: 'c1', 'I/O': 'c0', locks: 'c3', LWLocks: 'c5', 'idle in transaction': 'c4', other: 'c6',
  };
  return panel.lines.map((line, i) => {
    if (panel.palette === 'case') return run.counts ? colours[run.colour] : colours.muted;
    if (panel.palette === 'percentile') return colours[`p${i}`];
    if (panel.palette === 'error') return colours.void;
    if (panel.palette === 'share' && named[line.name]) return colours[named[line.name]];
    return colours[`c${i % 8}`];
  });
}

function timeChart(holder, run, panel, index) {
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  const title = document.createElement('strong');
  title.textContent = panel.title;
  const unit = document.createElement('span');
  unit.className = 'note';
  unit.textContent = panel.unit + (panel.log ? ', log scale' : '');
  caption.append(title, ' ', unit);
  const element = document.createElement('div');
  const isHeat = panel.palette === 'heat';
  element.className = panel.guides.length && panel.palette === 'share' ? 'chart stack' : 'chart low';
  element.dataset.chart = `run-${panel.title}`;
  if (isHeat) element.style.height = heatHeight(panel.lines.length);
  figure.append(caption, element, timeTable(panel));
  holder.append(figure);

  const palette = lineColours(run, panel);
  const entries = isHeat ? heatKeys() : panel.lines.map((line, i) => ({ name: panel.lines.length > 1 ? line.name : '', colour: palette[i], area: panel.palette === 'share' }));
  const values = keys(element, index === 0 ? [...entries, ...markKeys(run)] : entries);
  const chart = place(element, isHeat ? heatOption(run, panel) : timeOption(run, panel, palette, index));
  return { chart, panel, values: values.slice(0, entries.length) };
}

function markKeys(run) {
  const kinds = new Set(run.marks.map((mark) => mark.kind));
  const found = [];
  if (kinds.has('checkpoint')) found.push({ name: 'checkpoint', colour: colours.checkpoint, area: true });
  if (kinds.has('autovacuum')) found.push({ name: 'autovacuum', colour: colours.autovacuum });
  if ([...kinds].some((k) => k !== 'checkpoint' && k !== 'autovacuum')) found.push({ name: 'trouble', colour: colours.void });
  return found;
}

function timeOption(run, panel, palette, index) {
  const [from, to, end] = run.window;
  const values = panel.lines.flatMap((line) => line.points.map((p) => p[1])).filter((v) => v !== null);
  const series = panel.lines.map((line, i) => ({
    type: 'line', name: line.name, data: withMarks(panel.log ? line.points.map(([t, v]) => [t, v > 0 ? v : null]) : line.points),
    color: palette[i], symbol: 'none',
    lineStyle: { width: line.name === 'max' || line.points.length > 600 ? 1 : 1.6 }, z: 3, silent: true,
    ...(panel.palette === 'share' ? { stack: 'all', areaStyle: { opacity: 0.55 }, lineStyle: { width: 0.8 } } : {}),
  }));
  series[0].markArea = { silent: true, z: 0, data: areas(run, from, to, end) };
  series[0].markLine = { silent: true, symbol: 'none', z: 1, label: { show: false }, data: moments(run, end) };
  if (panel.guides.length) series.push({ type: 'line', data: [], markLine: guideLines(panel) });
  const axis = panel.log ? logAxis(values, 0.8) : valueAxis({ min: lowest(values), ...limit(panel, values) });
  if (panel.guides.length) axis.axisLabel.showMaxLabel = false;
  const words = panel.lines.map((line) => {
    const known = line.points.map((p) => p[1]).filter((v) => v !== null);
    return known.length ? `${line.name} from ${significant(-highest(known.map((v) => -v)))} to ${significant(highest(known))}` : `${line.name}: nothing`;
  });
  const guides = panel.guides.map((guide) => `; line at ${guide.name}`).join('');
  return {
    ...frame(`${panel.title} of ${run.shaded ? 'all runs' : `run ${run.run}`} over ${Math.round(end)} seconds, ${panel.unit}: ${words.join('; ')}${guides}.`),
    grid: { left: 62, right: 12, top: 8, bottom: 22 },
    xAxis: {
      type: 'value', min: 0, max: end, axisLabel: { ...label(), formatter: clock, hideOverlap: true, showMinLabel: false, showMaxLabel: false },
      interval: interval(end), splitLine: { show: false }, axisLine: { lineStyle: { color: colours.line } }, axisTick: { show: false },
    },
    yAxis: { ...axis, splitNumber: 3 },
    tooltip: { trigger: 'axis', showContent: false, axisPointer: { type: 'line', lineStyle: { color: colours.muted, width: 1, type: 'solid' }, label: { show: false } } },
    dataZoom: [{ type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, filterMode: 'none' }],
    series,
  };
}

// A line shows nothing of a point that has no neighbours: it gets a mark.
function withMarks(points) {
  const isKnown = (i) => i >= 0 && i < points.length && points[i][1] !== null;
  return points.map((value, i) => (isKnown(i) && !isKnown(i - 1) && !isKnown(i + 1) ? { value, symbol: 'circle', symbolSize: 5 } : value));
}

// Values that do not change, over all lines; named at the two ends in turn, so that names of lines close to each other keep apart.
function guideLines(panel) {
  const line = ({ name, value }, i) => ({
    yAxis: value, lineStyle: { color: colours.text, width: 1, type: i === 0 ? 'dashed' : 'solid' },
    label: { ...label(), color: colours.text, formatter: name, position: i === 0 ? 'insideEndTop' : 'insideStartTop', distance: 2, backgroundColor: colours.page, padding: [1, 3] },
  });
  return { silent: true, symbol: 'none', z: 5, data: panel.guides.map(line) };
}

// Shares end at 100 %, unless something was above it. A line across the chart is within it, with its name.
function limit(panel, values) {
  if (panel.guides.length) {
    const stacked = panel.palette === 'share' ? panel.lines[0].points.map((_, i) => panel.lines.reduce((sum, line) => sum + (line.points[i][1] ?? 0), 0)) : values;
    const max = niceAbove(1.15 * Math.max(highest(stacked), ...panel.guides.map((guide) => guide.value)));
    return panel.unit === '%' ? { max, interval: 50 } : { max };
  }
  return panel.unit === '%' && highest(values) <= 100.5 ? { max: 100, interval: 50 } : {};
}

// Not by Math.max(...values): the number of arguments is limited.
const highest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
const lowest = (values, most = 0) => values.reduce((a, b) => Math.min(a, b), most);

// Whole steps of a clock, about eight of them.
function interval(end) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
  return steps.find((step) => end / step <= 9) ?? 28800;
}

function areas(run, from, to, end) {
  const area = (start, stop, color) => [{ xAxis: start, itemStyle: { color } }, { xAxis: stop }];
  const found = [];
  for (const [start, stop] of run.shaded ?? []) found.push(area(start, stop, colours.shade));
  if (from > 0) found.push(area(0, from, colours.shade));
  if (to < end) found.push(area(to, end, colours.shade));
  for (const mark of run.marks) {
    const start = Math.max(mark.from_s, 0), stop = Math.min(mark.to_s, end);
    if (mark.kind === 'checkpoint' && !isMoment(mark, end)) found.push(area(start, stop, colours.checkpoint));
  }
  return found;
}

// Too short to be seen as an area.
const isMoment = (mark, end) => mark.to_s - mark.from_s < end / 400;

function moments(run, end) {
  const line = (x, color) => ({ xAxis: x, lineStyle: { color, width: 1, type: 'dashed' } });
  const found = [];
  for (const mark of run.marks) {
    if (mark.to_s < 0) continue;
    const from = Math.max(mark.from_s, 0);
    if (mark.kind !== 'checkpoint') found.push(line(from, mark.kind === 'autovacuum' ? colours.autovacuum : colours.void));
    else if (isMoment(mark, end)) found.push(line(from, colours.c5));
  }
  return found;
}

// Pointer and zoom move in all charts of the run; values are read in the captions, not in a box over the lines.
function together(charts) {
  let busy = false;
  const others = (origin, act) => {
    if (busy) return;
    busy = true;
    charts.forEach((other) => { if (other !== origin) act(other); });
    busy = false;
  };
  const read = (at) => charts.forEach(({ panel, values }) => {
    let found = at === null ? [] : panel.lines.map((line) => nearest(line.points, at));
    if (panel.palette === 'heat') {
      const known = found.filter((v) => v !== null);
      found = known.length ? [lowest(known, Infinity), highest(known)] : [];
    }
    values.forEach((value, i) => { value.textContent = at === null ? '' : significant(found[i] ?? null); });
  });
  for (const origin of charts) {
    origin.chart.getZr().on('mousemove', (event) => {
      if (!origin.chart.containPixel('grid', [event.offsetX, event.offsetY])) return;
      const at = origin.chart.convertFromPixel({ xAxisIndex: 0 }, event.offsetX);
      read(at);
      others(origin, ({ chart }) => chart.dispatchAction({ type: 'showTip', x: event.offsetX, y: 20 }));
    });
    origin.chart.getZr().on('globalout', () => {
      read(null);
      others(origin, ({ chart }) => chart.dispatchAction({ type: 'hideTip' }));
    });
    origin.chart.getZr().on('dblclick', () => charts.forEach(({ chart }) => chart.dispatchAction({ type: 'dataZoom', start: 0, end: 100 })));
    origin.chart.on('datazoom', () => {
      const { start, end } = origin.chart.getOption().dataZoom[0];
      others(origin, ({ chart }) => chart.dispatchAction({ type: 'dataZoom', start, end }));
    });
  }
}

function nearest(points, at) {
  let low = 0, high = points.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < at) low = middle + 1; else high = middle;
  }
  const before = points[Math.max(low - 1, 0)];
  const found = at - before[0] < points[low][0] - at ? before : points[low];
  return found[1];
}

// Long tables are made only when someone opens them.
function timeTable(panel) {
  const details = document.createElement('details');
  details.className = 'data';
  const summary = document.createElement('summary');
  summary.textContent = 'Table';
  summary.setAttribute('aria-label', `Table: ${panel.title}`);
  details.append(summary);
  details.addEventListener('toggle', () => {
    if (!details.open || details.querySelector('table')) return;
    const times = [...new Set(panel.lines.flatMap((line) => line.points.map((p) => p[0])))].sort((a, b) => a - b);
    const maps = panel.lines.map((line) => new Map(line.points));
    const table = document.createElement('table');
    table.setAttribute('aria-label', panel.title);
    const head = table.createTHead().insertRow();
    for (const text of ['Time, s', ...panel.lines.map((line) => `${line.name} ${panel.unit}`)]) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const time of times) {
      const row = body.insertRow();
      row.insertCell().textContent = plain(time);
      for (const map of maps) row.insertCell().textContent = significant(map.get(time) ?? null);
    }
    const scroll = document.createElement('div');
    scroll.className = 'scroll';
    scroll.tabIndex = 0;
    scroll.setAttribute('role', 'group');
    scroll.setAttribute('aria-label', panel.title);
    scroll.append(table);
    details.append(scroll);
  });
  return details;
}
