"""Random SOQL against the emulated org, compared with a plain evaluation that shares no code with its compiler.

`org_facts` is an org and what is known of its objects, `queries` a query as a value and `writing` as text, `generation`
makes random ones, `evaluation` answers them from the records as dicts.
"""
