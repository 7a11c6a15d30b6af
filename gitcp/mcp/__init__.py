"""The server of `gitcp mcp`: tools, resources, prompts and the timeline. Sole user of mcp.

`arguments` and `documents` describe what goes in and what comes out, and the schemas that clients
see are made from them. `reading` and `writing` are the tools, `tools` their table. `hints` writes
the hints of errors as tool calls. `server` connects it all to standard input and output.
"""
