"""What a forge keeps beside the code: one comment of ours in a pull or merge request, over its HTTP
API.
"""
