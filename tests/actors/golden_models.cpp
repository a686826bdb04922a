// The golden models, for tests of the pipeline.
#include "tests/model/golden_models.cpp"
