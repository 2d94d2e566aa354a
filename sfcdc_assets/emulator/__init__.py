"""An emulated Salesforce org, to rehearse and test pipelines against: a wing of its own, which only its commands,
`sfcdc demo` and `sfcdc dev` know. Needs the extra `emulator`."""
