// The numbers of the page, as Python wrote them.
const contents = JSON.parse(document.getElementById('report-contents').textContent);
const domains = contents.domains;
const byId = (id) => document.getElementById(id);

// Index of each name among the labelled domains; the first one, if a name is repeated.
const domainIndex = new Map();
if (domains) domains.name.forEach((name, k) => domainIndex.has(name) || domainIndex.set(name, k));
