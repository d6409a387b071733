"""Contents of files on the server, by project.

A digest gives no access: a project has a content only if the bytes were sent to that project, and
two projects with the same content store it twice. Each part is a separate object, written before
the transaction that registers it. Once all parts are stored, the SHA-256 is compared. The names of
the objects describe them, so that the tables can be rebuilt from the objects alone.
"""
