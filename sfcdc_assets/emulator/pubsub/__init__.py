"""The Pub/Sub API: gRPC calls over TLS, each with its stream of requests and responses."""
