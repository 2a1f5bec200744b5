// The part of Foundation that the host code uses, declared from Apple's
// documentation of each name. A misspelt selector or a wrong type fails here.
#pragma once

#include <cstddef>
#include <cstdint>

#define nil nullptr

typedef unsigned long NSUInteger;

__attribute__((objc_root_class))
@interface NSObject
#if !__has_feature(objc_arc)
- (instancetype)retain;
- (oneway void)release;
#endif
@end

@interface NSString : NSObject
+ (instancetype)stringWithUTF8String:(const char*)bytes;
@property(readonly) const char* UTF8String;
@end

@interface NSError : NSObject
@property(readonly) NSString* localizedDescription;
@end

// Named by torch's header of its MPS stream; the host code does not use it.
@class NSDictionary;
