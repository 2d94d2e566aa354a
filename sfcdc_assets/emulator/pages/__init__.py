"""The org's pages: what a person sees who opens the REST root in a browser. Server-rendered, with a little script."""
