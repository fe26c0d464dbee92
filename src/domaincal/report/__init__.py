"""One HTML page of results for readers: contents as numbers, and the page that shows them."""
