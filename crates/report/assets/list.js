// The list: its form asks the server as soon as it changes, and the picked results are counted.
document.addEventListener('DOMContentLoaded', () => {
  const form = document.getElementById('filter');
  if (!form) return;
  let waiting = 0, asked = 0;
  const picked = new Set();

  const count = () => {
    const output = document.getElementById('n-picked');
    if (!output) return;
    output.textContent = picked.size === 0 ? 'Pick two results to compare them, or more to see them next to each other.' : picked.size === 1 ? '1 picked' : `${picked.size} picked`;
    document.body.dataset.picked = picked.size;
  };
  const mark = () => {
    for (const box of document.querySelectorAll('input[form="pick"]')) box.checked = picked.has(box.value);
    count();
  };
  document.addEventListener('change', (event) => {
    if (!event.target.matches('input[form="pick"]')) return;
    if (event.target.checked) picked.add(event.target.value); else picked.delete(event.target.value);
    count();
  });
  // The browser restores boxes when one comes back from another page.
  addEventListener('pageshow', () => {
    for (const box of document.querySelectorAll('input[form="pick"]:checked')) picked.add(box.value);
    count();
  });

  const ask = async () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== '');
    const address = fields.length ? `/?${new URLSearchParams(fields)}` : '/';
    const number = ++asked;
    const answer = await fetch(address);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const found = page.getElementById('found');
    if (number !== asked || !found) return;
    document.getElementById('found').replaceWith(found);
    history.replaceState(null, '', address);
    mark();
  };
  form.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(ask, 120); });
  form.addEventListener('submit', (event) => { event.preventDefault(); ask(); });
  form.classList.add('scripted');
});
