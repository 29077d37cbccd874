// The run that is under way: what the server sends goes into the report's own charts.
document.addEventListener('DOMContentLoaded', () => {
  const live = document.getElementById('live');
  if (!live) return;
  const line = document.getElementById('line');
  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) { visible.add(target); refresh(target); } else visible.delete(target);
    }
  }, { rootMargin: '200px' });
  const stale = new Set();
  let source = null, last = '', again = 0, ended = false;

  const say = (words, lost) => {
    if (line.textContent !== words) line.textContent = words;
    line.classList.toggle('lost', Boolean(lost));
  };

  // A stream that a hidden page keeps open would cost the machine that measures, and one of the few that a browser opens to a server.
  const listen = () => {
    clearTimeout(again);
    source?.close();
    if (ended || document.hidden) return;
    const stream = new EventSource(live.dataset.events + (last ? `&after=${encodeURIComponent(last)}` : ''));
    source = stream;
    stream.onopen = () => say('Live: a point each second.', false);
    stream.onerror = () => {
      say('The connection is lost; trying again …', true);
      if (stream.readyState === EventSource.CLOSED && stream === source) again = setTimeout(listen, 2000);
    };
    const on = (name, act) => stream.addEventListener(name, (event) => {
      if (event.lastEventId) last = event.lastEventId;
      act(event.data);
      // A window that has lost the focus says nothing of what loses it within.
      deliver();
    });
    on('whole', (text) => whole(JSON.parse(text)));
    on('more', (text) => more(JSON.parse(text)));
    on('part', (text) => part(JSON.parse(text)));
    on('ended', (text) => end(JSON.parse(text)));
    on('full', (text) => full(stream, JSON.parse(text)));
  };

  const full = (stream, { words, retry_ms: pause }) => {
    stream.close();
    say(words, true);
    if (stream === source) again = setTimeout(listen, pause);
  };

  const whole = (run) => {
    data.runs = [run];
    watcher.disconnect();
    visible.clear();
    choose(run.run);
    for (const figure of document.querySelectorAll('#run figure')) watcher.observe(figure);
    values();
    document.body.dataset.points = count(run);
  };

  const count = (run) => run.panels.reduce((sum, panel) => sum + panel.lines.reduce((n, one) => n + one.points.length, 0), 0);

  const more = ({ window: ends, points, marks }) => {
    const run = data.runs[0];
    if (!run) return;
    run.window = ends;
    run.marks = marks;
    for (const [panel, one, t, value] of points) run.panels[panel]?.lines[one]?.points.push([t, value]);
    figures().forEach((figure) => { stale.add(figure); if (visible.has(figure)) refresh(figure); });
    values();
    document.body.dataset.points = count(run);
  };

  const figures = () => [...document.querySelectorAll('#run figure')];

  // Only charts that can be seen are drawn again.
  const refresh = (figure) => {
    if (!stale.delete(figure)) return;
    const run = data.runs[0];
    const index = figures().indexOf(figure);
    const chart = drawn.find((one) => figure.contains(one.getDom()));
    const panel = run.panels[index];
    if (!chart || !panel) return;
    const option = panel.palette === 'heat' ? heatOption(run, panel) : timeOption(run, panel, lineColours(run, panel), index);
    delete option.dataZoom;
    chart.setOption(option, { lazyUpdate: true });
  };

  // The last values, in the captions, unless a pointer reads others there.
  const values = () => {
    if (document.querySelector('#run .chart:hover')) return;
    figures().forEach((figure, index) => {
      const panel = data.runs[0].panels[index];
      if (!panel || panel.palette === 'heat') return;
      figure.querySelectorAll('figcaption .keys b').forEach((value, i) => {
        const points = panel.lines[i]?.points;
        if (points?.length) value.textContent = significant(points[points.length - 1][1]);
      });
    });
  };

  // What has the focus is not taken away: its new contents wait until the focus has gone elsewhere.
  const waiting = new Map();
  const part = ({ id, html }) => {
    const element = document.getElementById(id);
    if (!element) return;
    if (element.contains(document.activeElement)) { waiting.set(id, html); return; }
    waiting.delete(id);
    const open = new Set([...element.querySelectorAll('details[open]')].map((one) => one.closest('li')?.querySelector('.id')?.textContent));
    element.innerHTML = html;
    for (const details of element.querySelectorAll('details')) {
      if (open.has(details.closest('li')?.querySelector('.id')?.textContent)) details.open = true;
    }
  };

  const deliver = () => [...waiting].forEach(([id, html]) => part({ id, html }));

  // The element that gets the focus has it a moment later.
  live.addEventListener('focusout', () => setTimeout(deliver));

  const end = ({ words, to, leaves }) => {
    ended = true;
    source?.close();
    say('', false);
    const note = document.createElement('p');
    note.className = 'banner';
    const link = document.createElement('a');
    link.href = to;
    link.textContent = 'Open the report';
    note.append(words, ' ', link);
    document.getElementById('ended').replaceChildren(note);
    document.querySelectorAll('.acts button').forEach((button) => { button.disabled = true; });
    // A server that was started with the run ends with it: the report stays in the browser.
    if (leaves) location.assign(to);
  };

  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { source?.close(); say('Paused while the page is hidden.', false); } else listen();
  });
  addEventListener('pagehide', () => source?.close());
  addEventListener('pageshow', (event) => { if (event.persisted) listen(); });
  listen();
});
