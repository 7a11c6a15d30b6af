"""Ask what watches a working tree which directories may have changed.

What answers "nothing changed" (gitcp.fastpath) asks too, before anything else is loaded: so this
package loads no `typing`, no `socket`, and its protocol only where something listens.
"""
