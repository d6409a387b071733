"""Routes of the server: each module here has a ``router``, mounted below ``/api/v1``.

Reads are ``POST read/<verb>``, for our own client, pages and others alike; `seamark.server.reads`
makes their routes of functions and of the methods of `seamark.reading.reader.Reader`, and the
description at ``openapi.json`` of their types. The body is a JSON object: the arguments,
``project`` and ``run`` where the question is about one run (a run id, or ``.project`` for a
project's own log), ``seen`` of an earlier answer, and ``next`` of the part before. The answer is
``{"answer": ..., "seen": ..., "next": ...}``, in MessagePack for who accepts
``application/msgpack`` (`seamark.reading.codec`), else in JSON (`seamark.server.answering`);
``?arrays=json`` writes arrays as lists of numbers.

An answer has at most 1,000,000 points, a table at most 10,000 rows, and a list as many items as fit
into 16 MiB. Of points and lists, ``next`` asks for the rest. Every answer to a read has the header
``Seamark-Now``: the time of the server, nanoseconds since the Unix epoch. Where folders cannot be
looked into, ``Seamark-Unread`` says how many. Only what the asker may read is there at all.

Files are ``GET runs/{project}/{run}/blobs/{sha256}`` with ``ETag`` and ranges, journals below
``runs/{project}/{run}/journals``. These change something, and answer plain JSON:

- ``PATCH runs`` edits name, description, tags and trash of runs;
- ``POST arrivals`` asks under which name a run may come;
- ``POST runs/claims`` claims the first of some runs, or groups, that is free; ``runs/claims/held``
  and ``runs/claims/release`` ask for one, and give it back;
- ``PATCH views`` saves, renames and removes views of a project; ``POST views`` lists them;
- ``POST link`` makes an address of a content that needs no token, for 60 s to begin with.
"""
