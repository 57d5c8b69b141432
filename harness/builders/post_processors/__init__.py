"""Post-processors of a corpus's paragraphs, one module each: `harness.ports.PostProcessor`.

They run in the order in which a source names them, on foreign text, and take linear time.
"""
