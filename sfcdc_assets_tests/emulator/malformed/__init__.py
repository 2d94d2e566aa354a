"""Seeded malformed requests to everything an emulated org listens to: `rest` (with SOQL, Bulk and SOAP), `bayeux`,
`pubsub` calls and `connections` that speak no protocol at all. Some are random, most are good requests with a part
replaced, dropped or doubled, since those get further. A value is the same for the same dice."""
