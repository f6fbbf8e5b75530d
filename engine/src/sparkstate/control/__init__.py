"""The control endpoint of one job: REST, metrics and the page, and the client that talks to it.

The room sees the job through a protocol (``port``), and so knows neither driver nor Spark. It alone imports FastAPI and
uvicorn. Three bounds hold before a route is reached: connections (``connections``), keys (``auth``), bodies
(``limits``): the kubelet's probes need neither a key nor a thread and are always answered. A request without a key
learns only whether the process lives. ``documents`` are read by programs of other versions, so fields are only ever
added. ``driver_life`` is the table of a driver's phases.
"""
