"""Post-processors of a corpus' paragraphs, one module each: `harness.ports.PostProcessor`.

They run in the order in which a source names them, on foreign text, and take linear time.
"""
