"""Routes of the server: each module here has a ``router``, mounted below ``/api/v1``.

Reads are ``POST read/<verb>``, for the Seamark client, pages and other programs.
`seamark.server.reads` generates their routes from functions and the methods of
`seamark.reading.reader.Reader`, and the description at ``openapi.json`` from their types. The body
is a JSON object with the arguments, ``project`` and ``run`` for verbs about one run (a run id, or
``.project`` for a project's own log), ``seen`` of an earlier answer, and ``next`` of the previous
part. The answer is ``{"answer": ..., "seen": ..., "next": ...}``, in MessagePack for clients that
accept ``application/msgpack`` (`seamark.reading.codec`), else in JSON (`seamark.server.answering`).
``?arrays=json`` writes arrays as lists of numbers.

An answer has at most 1,000,000 points, a table at most 10,000 rows, and a list as many items as fit
into 16 MiB. ``next`` requests the rest of points and lists. Every answer to a read has the header
``Seamark-Now``, the time of the server in nanoseconds since the Unix epoch. ``Seamark-Unread`` is
the number of unreadable folders, if any. Data that the requester may not read is treated as
missing.

Files are ``GET runs/{project}/{run}/blobs/{sha256}`` with ``ETag`` and ranges, journals below
``runs/{project}/{run}/journals``. These routes change data, and answer in plain JSON:

- ``PATCH runs`` edits name, description, tags and trash of runs;
- ``POST arrivals`` returns the name under which a new run is accepted;
- ``POST runs/claims`` claims the first free run or group of some; ``runs/claims/held`` checks a
  claim, and ``runs/claims/release`` releases it;
- ``PATCH views`` saves, renames and removes views of a project; ``POST views`` lists them;
- ``POST link`` creates an address of a content that needs no token, valid for 60 s (parts: 12 h).
"""
