<?php
// SPDX-License-Identifier: MIT
header('Content-Type: text/plain');
header('Content-Length: 14');
echo "Hello, world!\n";
