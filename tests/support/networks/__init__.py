"""Small networks as ONNX files, made here, and the tokenizers that go with them."""
