"""Faults put into real gitcp processes, and crowds of them: what is lost, what is left behind, what
is said.
"""
