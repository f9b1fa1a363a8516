"""From journeys to findings: the table of codes and their pages, the rules, and what runs them."""
