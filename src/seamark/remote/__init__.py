"""Places elsewhere that keep journals: what sends to them and what reads from them.

What is sent are journals as they lie on disk, and what is read is what a server folded.
"""
