"""One program an engine. Each is called with words ``name=value`` and runs a load to the end of its input.

``load``, ``rows``, ``slots``, ``scratch`` (a folder of the program's own) and ``checkpoint_s`` come to all of them;
``answers``, a folder, only where the answers are to be compared: without it they are dropped. Answers are CSV files
without a header, ``k,total`` or ``k,begin,rows,total``, or the columns in ``nexmark.COLUMNS``. ``time``, the SQL of a
row's event time, and ``delay_ms`` come with loads for which event time matters.
"""
