#pragma once
#include "shared.h"
