// Light or dark: the system's choice, or that of the button, remembered where the browser allows.
window.domaincalTheme = (() => {
  'use strict';
  const key = 'domaincal-report-theme';
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const listeners = [];
  let chosen = null;
  try {
    chosen = window.localStorage.getItem(key);
  } catch {
    chosen = null; // pages that were opened as files may have no storage
  }
  const name = () => (chosen === 'light' || chosen === 'dark' ? chosen : system.matches ? 'dark' : 'light');
  const apply = () => {
    root.dataset.theme = name();
    listeners.forEach((listener) => listener());
  };
  apply();
  system.addEventListener('change', apply);
  return {
    name,
    onChange: (listener) => listeners.push(listener),
    toggle() {
      chosen = name() === 'dark' ? 'light' : 'dark';
      try {
        window.localStorage.setItem(key, chosen);
      } catch {
        // the choice then holds until the page is closed
      }
      apply();
    },
  };
})();
