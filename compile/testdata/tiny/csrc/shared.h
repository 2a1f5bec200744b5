#pragma once
int twice(int);
