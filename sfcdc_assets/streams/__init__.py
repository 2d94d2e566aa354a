"""What landing knows of a stream of events, whatever protocol brings it: `streams/pubsub/` (gRPC), `streams/cometd/`.

A transport (`pubsub` is one) implements `Transport` and `Subscription`, and raises the errors that are here. Landing,
the sensors and the tables know nothing of the wire: neither its messages, nor its flow control, nor its kind of ids.
"""
