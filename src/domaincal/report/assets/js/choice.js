// The one domain that is shown in every table and figure, or none: then all are shown.
const choice = (() => {
  let name = null;
  let origin = null;
  const listeners = [];
  const chip = byId('chip');

  function show() {
    chip.hidden = name === null;
    byId('chip-name').replaceChildren(name === null ? '' : nameText(name, 40));
    document.querySelectorAll('.about-all').forEach((note) => { note.hidden = name === null; });
    byId('announcement').textContent =
      name === null ? 'All domains are shown.' : `Only ${plain(name)} is shown in all tables and figures.`;
    listeners.forEach((listener) => listener(name));
  }

  function choose(next) {
    if (next === name) return;
    const previous = name;
    if (next !== null) origin = document.activeElement;
    name = next;
    show();
    if (!document.contains(document.activeElement) || document.activeElement === document.body) {
      // The button that was pressed is gone: go to its successor, or back to where one came from.
      const id = next ?? previous;
      const table = origin && origin.dataset ? origin.dataset.table : null;
      const successors = [...document.querySelectorAll('button.name')].filter((b) => b.domainName === id);
      const target = successors.find((b) => b.dataset.table === table) || successors[0];
      if (next !== null && target) target.focus({ preventScroll: true });
      else if (origin && origin !== document.body && document.contains(origin)) origin.focus({ preventScroll: true });
      else (target || byId('main')).focus({ preventScroll: true });
    }
  }

  byId('show-all').addEventListener('click', () => choose(null));
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && name !== null) choose(null);
  });
  return {
    get name() { return name; },
    choose,
    toggle: (next) => choose(next === name ? null : next),
    onChange: (listener) => listeners.push(listener),
  };
})();

// The button that chooses a domain in a table: what a click on a point does, by keyboard.
function nameButton(name, table) {
  const button = element('button', {
    type: 'button', class: 'name', 'aria-pressed': String(choice.name === name),
    'aria-describedby': 'choose-hint', 'data-table': table, onclick: () => choice.toggle(name),
  }, nameText(name));
  button.domainName = name;
  return button;
}
