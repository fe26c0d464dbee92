"""How time and memory grow with the rows and with the domains."""
