"""One file a command: reads its options, joins the rooms, writes the result."""
