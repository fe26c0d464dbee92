// Fill the sections that the page has, and connect the theme and the printer.
const SHOW = {
  'change-table': showChange, 'domains-table': showDomains, 'overview-before': showOverview,
  'reliability-before': showReliability, 'methods-table': showMethods, 'temperatures-plot': showTemperatures,
  'unlabelled-table': showUnlabelled, 'risk-plot': showRisk,
};
for (const [id, show] of Object.entries(SHOW)) if (byId(id)) show();
choice.onChange(redraw);

const themeButton = byId('theme');
const nameTheme = () => {
  const dark = domaincalTheme.name() === 'dark';
  themeButton.textContent = dark ? 'Light' : 'Dark';
  themeButton.setAttribute('aria-label', dark ? 'Use light colours' : 'Use dark colours');
};
themeButton.hidden = false;
themeButton.addEventListener('click', () => domaincalTheme.toggle());
nameTheme();
domaincalTheme.onChange(() => { nameTheme(); redraw(); });

window.addEventListener('beforeprint', () => print(true));
window.addEventListener('afterprint', () => print(false));
window.matchMedia('print').addEventListener('change', (event) => print(event.matches));
