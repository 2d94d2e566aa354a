"""An emulated Salesforce org, which pipelines can be rehearsed and tested against."""
