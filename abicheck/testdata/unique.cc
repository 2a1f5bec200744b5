// A static variable of an inline function: STB_GNU_UNIQUE with g++.
inline int &counter() {
	static int n = 0;
	return n;
}
int use_counter() { return ++counter(); }
