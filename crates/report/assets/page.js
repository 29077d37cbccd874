// Draws the charts of the page from its data block. Words and tables are in the page already.
'use strict';
(() => {
  const problems = [];
  const note = (text) => {
    problems.push(String(text));
    if (document.body) document.body.dataset.errors = problems.join(' | ');
  };
  addEventListener('error', (e) => note(e.message));
  addEventListener('unhandledrejection', (e) => note(e.reason));
  document.addEventListener('securitypolicyviolation', (e) => note(`policy: ${e.violatedDirective} ${e.sample}`));
  document.addEventListener('DOMContentLoaded', start);

  let data, colours, fontFamily;
  let drawn = []; // the charts on the page, for resizing and drawing again
  let shown = null; // number of the run shown over time

  function start() {
    data = JSON.parse(document.getElementById('data').textContent);
    shown = data.first;
    document.getElementById('theme').addEventListener('click', () => {
      const dark = getComputedStyle(probe()).color === 'rgb(1, 1, 1)';
      setTheme(dark ? 'light' : 'dark');
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    let before = null;
    addEventListener('beforeprint', () => { before = document.documentElement.dataset.theme ?? ''; setTheme('light'); });
    addEventListener('afterprint', () => { if (before !== null) setTheme(before); before = null; });
    addEventListener('resize', () => drawn.forEach((chart) => chart.resize()));
    for (const button of document.querySelectorAll('.strip button')) {
      button.addEventListener('click', () => choose(Number(button.dataset.run)));
    }
    draw();
  }

  function setTheme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    draw();
  }

  // Colours come from the style sheet, resolved by an element because custom properties are not.
  function probe() {
    let element = document.getElementById('probe');
    if (!element) {
      element = document.createElement('i');
      element.id = 'probe';
      element.hidden = true;
      document.body.append(element);
    }
    element.style.color = 'light-dark(rgb(0, 0, 0), rgb(1, 1, 1))';
    return element;
  }

  function readColours() {
    const element = probe();
    const found = {};
    const names = ['page', 'text', 'muted', 'grid', 'line', 'shade', 'soft', 'void', 'checkpoint', 'autovacuum'];
    for (let i = 0; i < 8; i++) names.push(`c${i}`);
    for (let i = 0; i < 4; i++) names.push(`p${i}`);
    for (const name of names) {
      element.style.color = `var(--${name})`;
      found[name] = getComputedStyle(element).color;
    }
    return found;
  }

  function draw() {
    drawn.forEach((chart) => chart.dispose());
    drawn = [];
    colours = readColours();
    fontFamily = getComputedStyle(document.body).fontFamily;
    for (const element of document.querySelectorAll('main .chart[data-chart]')) {
      if (!element.closest('#run')) drawNamed(element, element.dataset.chart);
    }
    choose(shown);
  }

  function drawNamed(element, name) {
    if (name === 'throughput') {
      place(element, data.cases.length === 1 ? throughputOfRuns() : throughputByCase());
    } else if (name === 'latency') {
      place(element, data.cases.length === 1 ? latencyOfOne() : latencyByCase(['p50', 'p95', 'p99'], false));
    } else {
      place(element, latencyByCase([name.replace('latency-', '')], true));
    }
  }

  function place(element, option) {
    const chart = echarts.init(element, null, { renderer: 'svg' });
    chart.setOption(option);
    if (!element.querySelector('svg path')) throw new Error(`chart ${element.dataset.chart} is empty`);
    drawn.push(chart);
    document.body.dataset.rendered = drawn.length;
    return chart;
  }

  // ---- numbers -------------------------------------------------------------------------------------------------

  function significant(x) {
    if (x === null || x === undefined || !Number.isFinite(x)) return '-';
    if (x === 0) return '0';
    const digits = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(3)))));
    const decimals = Math.min(Math.max(2 - digits, 0), 9);
    return x.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  const plain = (x) => x.toLocaleString('en-US', { maximumSignificantDigits: 6 });
  const clock = (s) => (s < 0 ? '-' : '') + `${Math.floor(Math.abs(s) / 60)}:${String(Math.floor(Math.abs(s) % 60)).padStart(2, '0')}`;

  // ---- parts of options ----------------------------------------------------------------------------------------

  const label = () => ({ color: colours.muted, fontSize: 12, fontFamily });

  function frame(description) {
    return {
      animation: false,
      textStyle: { fontFamily, color: colours.text },
      aria: { enabled: true, label: { description } },
      tooltip: tip(),
    };
  }

  function tip() {
    return {
      confine: true, backgroundColor: colours.page, borderColor: colours.line, padding: [6, 10],
      textStyle: { color: colours.text, fontFamily, fontSize: 13 }, extraCssText: 'box-shadow: none',
    };
  }

  // Lines of a tooltip as elements: labels are text, never markup.
  function lines(title, rows) {
    const box = document.createElement('div');
    box.className = 'tip';
    const head = document.createElement('b');
    head.textContent = title;
    box.append(head);
    for (const row of rows) {
      const line = document.createElement('div');
      line.textContent = row;
      box.append(line);
    }
    return box;
  }

  function valueAxis(more) {
    return {
      type: 'value', axisLabel: { ...label(), formatter: plain }, splitLine: { lineStyle: { color: colours.grid } },
      axisLine: { show: false }, axisTick: { show: false }, ...more,
    };
  }

  function levelAxis() {
    return {
      type: 'category', data: data.axis.levels, name: data.axis.title, nameLocation: 'middle', nameGap: 30,
      nameTextStyle: { ...label(), fontSize: 13 }, axisLabel: { ...label(), fontSize: 13, hideOverlap: true },
      axisLine: { lineStyle: { color: colours.line } }, axisTick: { show: false },
    };
  }

  // A log axis that ends at a 1, 2 or 5 around the data, not at the next power of ten, with lines at as many of
  // them as fit.
  function logAxis(values, fine = 2.5) {
    const known = values.filter((v) => v > 0);
    const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = highest(known);
    const step = (x, up) => {
      const power = 10 ** Math.floor(Math.log10(x));
      const steps = [1, 2, 5, 10].map((n) => n * power);
      return up ? steps.find((s) => s >= x * 0.9999) : steps.findLast((s) => s <= x * 1.0001);
    };
    if (!known.length) return valueAxis({});
    const min = step(low, false), max = Math.max(step(high, true), min * 2);
    const decades = Math.log10(max / min);
    const marks = [];
    for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) {
      const steps = decades <= fine ? [1, 2, 5] : [1];
      for (const n of steps) if (n * power >= min * 0.9999 && n * power <= max * 1.0001) marks.push(n * power);
    }
    const axis = valueAxis({ type: 'log', min, max });
    axis.axisLabel.customValues = marks;
    axis.axisTick.customValues = marks;
    return axis;
  }

  function keys(element, entries) {
    const caption = element.closest('figure').querySelector('figcaption');
    caption.querySelector('.keys')?.remove();
    const list = document.createElement('span');
    list.className = 'keys';
    const values = entries.map(({ name, colour, area }) => {
      const entry = document.createElement('span');
      const mark = document.createElement('i');
      mark.style.color = colour;
      if (area) mark.className = 'area';
      const value = document.createElement('b');
      if (name) entry.append(mark, name, ' ');
      entry.append(value);
      list.append(entry);
      return value;
    });
    caption.append(list);
    return values;
  }

  // ---- by case -------------------------------------------------------------------------------------------------

  const groupColour = (group) => {
    const member = data.cases.find((c) => c.group === group);
    return data.axis.groups.length > 1 ? colours[`c${member.colour}`] : colours.c0;
  };

  // Groups stand side by side within the place of their level; closer where lines join the levels, because lines
  // that start at different places seem to cross.
  function slot(band) {
    const n = data.axis.groups.length;
    const share = n > 1 && data.axis.numeric ? 0.26 : 0.62;
    return Math.min((band * share) / n, 40);
  }
  const offset = (group, band) => (group - (data.axis.groups.length - 1) / 2) * slot(band);
  const halfWidth = (band) => slot(band) * 0.42;

  function throughputByCase() {
    const series = [];
    data.axis.groups.forEach((name, group) => {
      const cases = data.cases.filter((c) => c.group === group && c.median !== null).sort((a, b) => a.level - b.level);
      if (!cases.length) return;
      const colour = groupColour(group);
      if (data.axis.numeric) series.push(medianLine(cases, group, colour));
      series.push(boxes(name, cases, group, colour));
      series.push(dots(name, group, colour));
    });
    if (data.axis.groups.length > 1) {
      const element = document.querySelector('[data-chart=throughput]');
      keys(element, data.axis.groups.map((name, group) => ({ name, colour: groupColour(group) })));
    }
    const words = data.cases.filter((c) => c.median !== null).map((c) => `${c.label}: ${significant(c.median)} tps`);
    return {
      ...frame(`Throughput of each case, median of its runs. ${words.join('; ')}.`),
      grid: { left: 62, right: 12, top: 30, bottom: data.axis.title ? 52 : 30 },
      xAxis: levelAxis(), yAxis: valueAxis({ min: 0 }), series,
    };
  }

  function medianLine(cases, group, colour) {
    return {
      type: 'custom', silent: true, z: 1, data: [[cases[0].level, cases[0].median]],
      renderItem: (params, api) => {
        const shift = offset(group, api.size([1, 0])[0]);
        const points = cases.map((c) => api.coord([c.level, c.median])).map(([x, y]) => [x + shift, y]);
        return { type: 'polyline', shape: { points }, style: { stroke: colour, fill: 'none', lineWidth: 1.5, opacity: 0.45 } };
      },
    };
  }

  // Box of the quartiles where there are enough runs, a bar at the median, a line from lowest to highest.
  function boxes(name, cases, group, colour) {
    return {
      type: 'custom', name, z: 2, data: cases.map((c) => [c.level, c.median, c.range[0], c.range[1]]),
      encode: { x: 0, y: [1, 2, 3] },
      tooltip: { formatter: (p) => caseTip(cases[p.dataIndex]) },
      renderItem: (params, api) => {
        const item = cases[params.dataIndex];
        const band = api.size([1, 0])[0];
        const half = halfWidth(band);
        const at = (value) => api.coord([item.level, value])[1];
        const x = api.coord([item.level, 0])[0] + offset(group, band);
        const line = (x1, y1, x2, y2, lineWidth) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth } });
        const children = [];
        if (item.quartiles) {
          children.push(line(x, at(item.range[0]), x, at(item.range[1]), 1.5));
          const [low, high] = item.quartiles.map(at);
          children.push({
            type: 'rect', shape: { x: x - half, y: high, width: 2 * half, height: Math.max(low - high, 1) },
            style: { fill: colours.page, stroke: colour, lineWidth: 1.5 },
          });
        }
        children.push(line(x - half, at(item.median), x + half, at(item.median), 2.5));
        if (data.cases.length <= 12 && data.axis.groups.length === 1) {
          children.push({
            type: 'text', silent: true,
            style: {
              text: significant(item.median), x, y: at(item.range[1]) - 9, align: 'center', verticalAlign: 'bottom',
              fill: colours.text, font: `600 13px ${fontFamily}`,
            },
          });
        }
        return { type: 'group', children };
      },
    };
  }

  function caseTip(item) {
    const rows = [`median ${significant(item.median)} tps`, `lowest ${significant(item.range[0])}, highest ${significant(item.range[1])}`];
    if (item.ms) rows.push(`p50 ${significant(item.ms.p50)}, p99 ${significant(item.ms.p99)} ms`);
    return lines(item.label, rows);
  }

  // Each run a dot beside its box, in the order of execution; runs that do not count are hollow.
  function dots(name, group, colour) {
    const points = data.points
      .map((p) => ({ ...p, place: data.cases.find((c) => c.id === p.case) }))
      .filter((p) => p.place.group === group);
    return {
      type: 'custom', name, z: 3, data: points.map((p) => [p.place.level, p.tps]),
      tooltip: { formatter: (p) => runTip(points[p.dataIndex]) },
      renderItem: (params, api) => {
        const p = points[params.dataIndex];
        const [x, y] = api.coord([p.place.level, p.tps]);
        const band = api.size([1, 0])[0];
        const half = halfWidth(band);
        const siblings = points.filter((q) => q.case === p.case);
        const spread = siblings.length === 1 ? 0 : (siblings.indexOf(p) / (siblings.length - 1) - 0.5) * half * 1.2;
        return {
          type: 'circle', shape: { cx: x + offset(group, band) + spread, cy: y, r: data.axis.groups.length > 1 ? 2.4 : 3.2 },
          style: p.counts
            ? { fill: colour, stroke: colours.page, lineWidth: 0.8 }
            : { fill: colours.page, stroke: colours.muted, lineWidth: 1.4 },
        };
      },
    };
  }

  function runTip(point) {
    const rows = [`${significant(point.tps)} tps`];
    if (point.ms) rows.push(`p50 ${significant(point.ms.p50)}, p99 ${significant(point.ms.p99)} ms`);
    if (point.why) rows.push(`does not count: ${point.why}`);
    return lines(`Run ${point.run}`, rows);
  }

  function throughputOfRuns() {
    const points = data.points;
    const median = data.cases[0].median;
    const words = points.map((p) => `run ${p.run}: ${significant(p.tps)} tps`);
    const option = {
      ...frame(`Throughput of each run in the order of execution. ${words.join('; ')}.`),
      grid: { left: 62, right: 92, top: 14, bottom: 52 },
      xAxis: { ...levelAxis(), data: points.map((p) => String(p.run)), name: 'run' }, yAxis: valueAxis({ min: 0 }),
      series: [{
        type: 'scatter', symbolSize: 11, tooltip: { formatter: (p) => runTip(points[p.dataIndex]) },
        data: points.map((p, i) => ({
          value: [i, p.tps],
          itemStyle: p.counts
            ? { color: colours.c0 }
            : { color: colours.page, borderColor: colours.muted, borderWidth: 1.5 },
        })),
      }],
    };
    if (median !== null) {
      option.series[0].markLine = {
        silent: true, symbol: 'none', lineStyle: { color: colours.p0, type: 'solid', width: 1.5 },
        label: { ...label(), color: colours.text, position: 'end', formatter: `median ${significant(median)}` },
        data: [{ yAxis: median }],
      };
    }
    return option;
  }

  // ---- latency -------------------------------------------------------------------------------------------------

  const percentileColour = { p50: 'p0', p95: 'p1', p99: 'p2', max: 'p3' };

  function latencyByCase(percentiles, byGroup) {
    const series = [], all = [];
    data.axis.groups.forEach((group, index) => {
      const cases = data.cases.filter((c) => c.group === index && c.ms).sort((a, b) => a.level - b.level);
      for (const percentile of percentiles) {
        const colour = byGroup ? groupColour(index) : colours[percentileColour[percentile]];
        all.push(...cases.map((c) => c.ms[percentile]));
        series.push({
          type: data.axis.numeric ? 'line' : 'scatter', name: byGroup ? group : percentile, symbol: 'circle',
          symbolSize: data.axis.numeric ? 7 : 11, color: colour, lineStyle: { width: 2 },
          data: cases.map((c) => [c.level, c.ms[percentile]]),
          tooltip: { formatter: (p) => caseLatencyTip(cases[p.dataIndex]) },
          endLabel: { show: !byGroup && data.axis.numeric, formatter: percentile, color: colours.text, fontFamily, fontSize: 13, distance: 8 },
        });
      }
    });
    const element = document.querySelector(`[data-chart="latency${byGroup ? '-' + percentiles[0] : ''}"]`);
    if (!byGroup && !data.axis.numeric) keys(element, percentiles.map((name) => ({ name, colour: colours[percentileColour[name]] })));
    const words = data.cases.filter((c) => c.ms).map((c) => `${c.label}: ${percentiles.map((p) => `${p} ${significant(c.ms[p])} ms`).join(', ')}`);
    return {
      ...frame(`Latency of each case. ${words.join('; ')}.`),
      grid: { left: 62, right: !byGroup && data.axis.numeric ? 48 : 12, top: 14, bottom: data.axis.title ? 52 : 30 },
      xAxis: levelAxis(), yAxis: logAxis(all), series,
    };
  }

  function caseLatencyTip(item) {
    return lines(item.label, ['p50', 'p90', 'p95', 'p99', 'p999', 'max'].map((p) => `${p === 'p999' ? 'p99.9' : p} ${significant(item.ms[p])} ms`));
  }

  function latencyOfOne() {
    const names = ['p50', 'p90', 'p95', 'p99', 'p999', 'max'];
    const titles = ['p50', 'p90', 'p95', 'p99', 'p99.9', 'max'];
    const of = (ms) => names.map((name) => ms[name]);
    const runs = data.points.filter((p) => p.ms && p.counts);
    const series = runs.map((p) => ({
      type: 'line', name: `run ${p.run}`, data: of(p.ms), symbol: 'none', silent: true, color: colours.c0, lineStyle: { width: 1, opacity: 0.4 },
    }));
    const ms = data.cases[0].ms;
    series.push({
      type: 'line', name: 'all runs', data: of(ms), symbol: 'circle', symbolSize: 8, color: colours.c0, lineStyle: { width: 2.5 },
      label: { show: true, position: 'top', distance: 8, formatter: (p) => significant(p.value), color: colours.text, fontFamily, fontSize: 13 },
      tooltip: { formatter: () => caseLatencyTip(data.cases[0]) },
    });
    const all = [...runs.flatMap((p) => of(p.ms)), ...of(ms)];
    return {
      ...frame(`Latency. ${names.map((n, i) => `${titles[i]} ${significant(ms[n])} ms`).join('; ')}.`),
      grid: { left: 62, right: 24, top: 30, bottom: 30 },
      xAxis: { ...levelAxis(), data: titles, name: '' }, yAxis: logAxis(all), series,
    };
  }

  // ---- one run over time ---------------------------------------------------------------------------------------

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
    about.textContent = 'One time axis for all. Grey: load that does not count. Ctrl and wheel zooms, a double click shows all again.';
    return run.marks.length ? [title, about, markList(run)] : [title, about];
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
    const named = { server: 'c0', driver: 'c2', foreign: 'c1', pgdyno: 'c3', steal: 'c6', iowait: 'c7' };
    return panel.lines.map((line, i) => {
      if (panel.palette === 'case') return run.counts ? colours[`c${run.colour}`] : colours.muted;
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
    element.className = 'chart low';
    element.dataset.chart = `run-${panel.title}`;
    figure.append(caption, element, timeTable(panel));
    holder.append(figure);

    const palette = lineColours(run, panel);
    const entries = panel.lines.map((line, i) => ({ name: panel.lines.length > 1 ? line.name : '', colour: palette[i] }));
    const values = keys(element, index === 0 ? [...entries, ...markKeys(run)] : entries);
    const chart = place(element, timeOption(run, panel, palette, index));
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
      type: 'line', name: line.name, data: panel.log ? line.points.map(([t, v]) => [t, v > 0 ? v : null]) : line.points,
      color: palette[i], symbol: 'none', showSymbol: false,
      lineStyle: { width: line.name === 'max' ? 1 : 1.6 }, z: 3, silent: true,
      ...(panel.palette === 'share' ? { stack: 'all', areaStyle: { opacity: 0.55 }, lineStyle: { width: 0.8 } } : {}),
    }));
    series[0].markArea = { silent: true, z: 0, data: areas(run, from, to, end) };
    series[0].markLine = { silent: true, symbol: 'none', z: 1, label: { show: false }, data: moments(run) };
    const axis = panel.log ? logAxis(values, 0.8) : valueAxis({ min: lowest(values), ...limit(panel, values) });
    const words = panel.lines.map((line) => {
      const known = line.points.map((p) => p[1]).filter((v) => v !== null);
      return known.length ? `${line.name} from ${significant(-highest(known.map((v) => -v)))} to ${significant(highest(known))}` : `${line.name}: nothing`;
    });
    return {
      ...frame(`${panel.title} of run ${run.run} over ${Math.round(end)} seconds, ${panel.unit}: ${words.join('; ')}.`),
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

  // Shares end at 100 %, unless something was above it.
  function limit(panel, values) {
    return panel.unit === '%' && highest(values) <= 100.5 ? { max: 100, interval: 50 } : {};
  }

  // Not by Math.max(...values): the number of arguments is limited.
  const highest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const lowest = (values) => values.reduce((a, b) => Math.min(a, b), 0);

  // Whole steps of a clock, about eight of them.
  function interval(end) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
    return steps.find((step) => end / step <= 9) ?? 28800;
  }

  function areas(run, from, to, end) {
    const area = (start, stop, color) => [{ xAxis: start, itemStyle: { color } }, { xAxis: stop }];
    const found = [];
    if (from > 0) found.push(area(0, from, colours.shade));
    if (to < end) found.push(area(to, end, colours.shade));
    for (const mark of run.marks) {
      const start = Math.max(mark.from_s, 0), stop = Math.min(mark.to_s, end);
      if (mark.kind === 'checkpoint' && stop > start) found.push(area(start, stop, colours.checkpoint));
    }
    return found;
  }

  function moments(run) {
    const line = (x, color) => ({ xAxis: x, lineStyle: { color, width: 1, type: 'dashed' } });
    const found = [];
    for (const mark of run.marks) {
      if (mark.to_s < 0) continue;
      const from = Math.max(mark.from_s, 0);
      if (mark.kind !== 'checkpoint') found.push(line(from, mark.kind === 'autovacuum' ? colours.autovacuum : colours.void));
      else if (mark.to_s <= mark.from_s) found.push(line(from, colours.c5));
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
    const read = (at) => charts.forEach(({ panel, values }) => panel.lines.forEach((line, i) => {
      values[i].textContent = at === null ? '' : significant(nearest(line.points, at));
    }));
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
    details.append(summary);
    details.addEventListener('toggle', () => {
      if (!details.open || details.querySelector('table')) return;
      const times = [...new Set(panel.lines.flatMap((line) => line.points.map((p) => p[0])))].sort((a, b) => a - b);
      const maps = panel.lines.map((line) => new Map(line.points));
      const table = document.createElement('table');
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
      scroll.append(table);
      details.append(scroll);
    });
    return details;
  }
})();
