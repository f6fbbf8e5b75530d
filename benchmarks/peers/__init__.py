"""Other engines beside sparkstate: the loads, the programs, the measuring and the table of ``make bench-peers``."""
