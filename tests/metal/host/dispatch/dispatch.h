// The part of Grand Central Dispatch that the host code and the embedded
// library's header use.
#pragma once

#include <cstddef>

@protocol OS_dispatch_queue
@end
@protocol OS_dispatch_data
@end
typedef id<OS_dispatch_queue> dispatch_queue_t;
typedef id<OS_dispatch_data> dispatch_data_t;
typedef void (^dispatch_block_t)(void);

extern "C" void dispatch_sync(dispatch_queue_t queue, dispatch_block_t block);
extern "C" dispatch_data_t dispatch_data_create(const void* buffer, size_t size, dispatch_queue_t queue,
                                                dispatch_block_t destructor);
