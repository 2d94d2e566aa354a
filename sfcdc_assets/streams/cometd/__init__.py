"""The wire of the Streaming API: Bayeux messages over long-polling HTTPS, JSON in, bytes out. A transport (`streams`)
for networks in which only the org's own HTTPS port is open.

Guarantees: no read waits without end; a session that the service has forgotten goes on where its reader is, never where
it began; nothing is skipped silently; no token appears in a message. Nothing is connected until it is used.
"""
