# The smallest worker of schedd in shell. SCHEDD_API_URL has the address.

schedctl work --queue default --handlers greet -- sh -c 'echo "hello $(cat)"'
