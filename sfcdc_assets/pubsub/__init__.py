"""The wire of the Pub/Sub API: gRPC in, bytes out.

Guarantees: no read waits without end, a broken stream goes on where its reader is, nothing is skipped silently, and no
token appears in a message. Nothing is connected until it is used.
"""
