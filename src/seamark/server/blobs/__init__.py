"""Contents of files on the server, by project.

A digest is no key: a project has a content only if somebody sent the bytes to that project, and
two projects that have the same content have it twice. Each part is an object of its own, written
before the transaction that says that it is there; once all are there, the SHA-256 is compared.
The names of the objects say what they are, so that the tables can be made again from them alone.
"""
