// The GGUF form of tests/model's golden models.
#include "tests/model/gguf_twin.cpp"
