// Names at the ends of lines, and the highlight of one series in all charts that have it.

const END_HEIGHT = 17; // pixels from one name to the next

// Places of names with these heights that do not overlap, as close to their lines as they can be, between `low` and `high`:
// names that collide form a block that is centred on its lines. `null` if there is no room for all.
function spread(wanted, gap, low, high) {
  if (wanted.length * gap > high - low + gap) return null;
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  const blocks = [];
  const top = (block) => Math.min(Math.max(block.sum / block.members.length - (gap * (block.members.length - 1)) / 2, low), high - gap * (block.members.length - 1));
  for (const [y, i] of order) {
    let block = { sum: y, members: [i] };
    while (blocks.length) {
      const last = blocks[blocks.length - 1];
      if (top(last) + gap * last.members.length <= top(block)) break;
      blocks.pop();
      block = { sum: last.sum + block.sum, members: [...last.members, ...block.members] };
    }
    blocks.push(block);
  }
  const placed = [];
  for (const block of blocks) block.members.forEach((member, n) => { placed[member] = top(block) + gap * n; });
  return placed;
}

// Room for names at the right, or 0 if they would take too much of the chart.
function endRoom(element, names) {
  const longest = highest(names.map((name) => name.length));
  const room = 20 + longest * 7.2;
  const isTooTall = names.length * END_HEIGHT > element.clientHeight - 70;
  return room > element.clientWidth * 0.34 || isTooTall ? 0 : room;
}

// Buttons with the names of series at the right of a chart. `ends`: name, colour, and the place and value of the last point.
function endLabels(chart, ends, grid) {
  const element = chart.getDom();
  const put = () => {
    element.querySelectorAll('.end, .leaders').forEach((old) => old.remove());
    const points = ends.map(({ level, value }) => chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [level, value]));
    const places = spread(points.map(([, y]) => y), END_HEIGHT, grid.top, element.clientHeight - grid.bottom);
    if (!places) return;
    const edge = element.clientWidth - grid.right;
    const drawing = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    drawing.setAttribute('class', 'leaders');
    drawing.setAttribute('aria-hidden', 'true');
    ends.forEach((end, i) => {
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      line.setAttribute('d', `M${points[i][0] + 5} ${points[i][1]}L${edge + 2} ${points[i][1]}L${edge + 10} ${places[i]}`);
      line.setAttribute('stroke', end.colour);
      line.dataset.series = end.name;
      drawing.append(line);
      const name = document.createElement('button');
      name.type = 'button';
      name.className = 'end';
      name.dataset.series = end.name;
      name.textContent = end.text ?? end.name;
      name.style.left = `${edge + 12}px`;
      name.style.top = `${places[i] - END_HEIGHT / 2}px`;
      name.style.maxWidth = `${grid.right - 12}px`;
      name.style.setProperty('--mark', end.colour);
      lights(name);
      element.append(name);
    });
    element.prepend(drawing);
  };
  put();
  chart.put = put;
}

// A button that highlights its series while the pointer or the keyboard is on it.
function lights(button) {
  const name = button.dataset.series;
  for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => light(name));
  for (const event of ['mouseleave', 'blur']) button.addEventListener(event, () => light(null));
}

function light(name) {
  document.body.dataset.lit = name ?? '';
  for (const chart of drawn) {
    if (!chart.lit) continue;
    chart.dispatchAction({ type: 'downplay' });
    if (name !== null) chart.dispatchAction({ type: 'highlight', seriesName: name });
  }
  for (const button of document.querySelectorAll('.end, .key, .leaders path')) {
    button.classList.toggle('dim', name !== null && button.dataset.series !== name);
  }
}

// The options of a series that others step back for.
const alone = () => ({ emphasis: { focus: 'series' }, blur: {} });
