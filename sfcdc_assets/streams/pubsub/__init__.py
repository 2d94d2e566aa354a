"""The wire of the Pub/Sub API: gRPC in, bytes out. The first implementation of a transport (`streams`).

Guarantees: no read waits without end, a broken stream goes on where its reader is, nothing is skipped silently, and no
token appears in a message. Nothing is connected until it is used.
"""
