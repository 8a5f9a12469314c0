from clerk.cli import main

main()
