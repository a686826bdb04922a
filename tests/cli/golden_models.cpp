// The golden models of tests/model, for models that are not the demo one.
#include "tests/model/golden_models.cpp"
